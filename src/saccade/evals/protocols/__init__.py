"""What a stored run says besides its accuracy: how tools were used, what went wrong, what it cost, how sure it was."""
