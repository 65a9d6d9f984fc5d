"""Generate tasks with exact answers, and the experts and the small model that learned on them."""
