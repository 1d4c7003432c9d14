// Shows the operations of the OpenAPI document that the page names, on its own host; nothing is validated elsewhere.
const place = document.getElementById("swagger-ui");
SwaggerUIBundle({ url: place.dataset.openapi, domNode: place, deepLinking: true, validatorUrl: null });
