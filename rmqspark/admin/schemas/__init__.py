"""What REST answers with: one file per subject."""
