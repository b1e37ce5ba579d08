"""Recipes of every form, as items with places. Nothing here runs or opens anything."""
