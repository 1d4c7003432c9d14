"""The replies of the services are messages of the contract: the client that fetches them, and how pages read them."""
