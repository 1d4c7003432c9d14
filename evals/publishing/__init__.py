"""Records of an evaluation are published without the texts of questions and of models."""
