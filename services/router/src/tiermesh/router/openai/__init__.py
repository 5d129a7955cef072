"""OpenAI's chat-completions surface: bodies in, bodies out."""
