"""What an image costs: from evidence in configuration and results files to a cost per image and a decision."""
