"""Prices without sampling error."""
