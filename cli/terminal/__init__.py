"""Parts that all commands share: the REST client, options, input files, output and exit statuses."""
