"""Distillation of an ancestor into a plain network (Simple-LG)."""
