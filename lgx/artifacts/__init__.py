"""What lies on disk: learngenes, pretrained networks, task embeddings, model folders."""
