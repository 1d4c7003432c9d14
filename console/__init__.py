"""The console is a web application that shows how the suite answers; it uses the services' public REST APIs."""
