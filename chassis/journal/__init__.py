"""The journal stores documents without delaying what makes them, and loses none that it could store."""
