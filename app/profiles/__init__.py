"""Contracts, templates and images a deployment is made of; what guards and activations make of them."""
