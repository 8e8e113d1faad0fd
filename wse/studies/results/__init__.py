"""Result parts shared by several studies, and how they are printed."""
