"""Reader of the text files of Aozora Bunko."""
