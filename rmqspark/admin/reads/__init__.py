"""Looking at a cluster: what REST and console both show, as documents. One file per subject."""
