"""Function-preserving growth of a smaller network (Net2Net, bert2BERT)."""
