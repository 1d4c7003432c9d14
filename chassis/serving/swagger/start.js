// Shows the operations of the service. `/openapi.json` is read from the host of this page; nothing is validated elsewhere.
SwaggerUIBundle({ url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null });
