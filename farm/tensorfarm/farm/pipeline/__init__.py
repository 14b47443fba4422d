"""The coordinator's pure half: a fold over events and the reactions to them. Performs no effect."""
