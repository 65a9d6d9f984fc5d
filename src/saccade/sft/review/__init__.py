"""The manual step of curation: a person keeps, drops or corrects items, and every decision is on the disk at once."""
