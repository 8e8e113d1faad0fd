"""Model families. Each file defines one `Family` or several closely related ones."""
