"""What each GPU of a training run will hold, before anything is loaded. Imports torch late; nothing here is public."""
