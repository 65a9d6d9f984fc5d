"""Errors E1 to E6 of VISTA: what went wrong in calls and around them."""
