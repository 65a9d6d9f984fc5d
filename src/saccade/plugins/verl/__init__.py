"""Train on verl and Ray."""
