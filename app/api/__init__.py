"""The HTTP boundary: routes, schemas, dependencies, problem details. Translation only."""
