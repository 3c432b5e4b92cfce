"""One file a pattern family: each fills a block of piece ends for a range of text."""
