"""Earlier names; this module is deleted with its last importer."""

from configuration import agents
from inference import backend_client, model_clients

Backend = backend_client.Backend
DEFAULT_AGENTS_FILE = agents.DEFAULT_AGENTS_FILE
ModelClient = model_clients.BackendModelClient
ModelClients = model_clients.BackendModelClients
