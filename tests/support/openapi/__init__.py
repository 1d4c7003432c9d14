"""Replies of services, compared with what their OpenAPI documents say of them."""
