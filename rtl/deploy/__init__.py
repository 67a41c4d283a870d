"""From sources to an image on a card: plans of steps for AWS F2 and for Alveo, and what the cards' tools say."""
