"""The one client for every OpenAI-compatible backend: vLLM, llama.cpp, Ollama, a provider.

Backends differ in what they support, and in how they say so; callers see one behaviour. Start at `client.Backend`;
`values` has what goes in and comes out, `errors` how it fails, `config` what can be set. Who reads a forwarded reply
has `sse.parsed` for its events and `reasoning.separated` for its content.
"""
