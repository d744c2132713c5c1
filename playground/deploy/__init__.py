"""Into production: exports for the engines, and old commands in today's words."""
