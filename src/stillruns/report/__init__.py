"""What people read: text tables and Markdown, made from the store's view only."""
