"""Files: learngenes, pretrained networks, checkpoints, task embeddings, exported models; checks of foreign files."""
