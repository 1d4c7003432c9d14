"""The replay runs the rules of the product over recorded answers of real models, without a model."""
