"""How each family of checkpoints frames a conversation; one file each."""
