"""Mappings of work onto a mesh: cuts, rectangles, communication patterns and strategies, without any transformer."""
