"""The environment behind OpenEnv's protocol: models of its wire, a server and a client. Needs the extra `openenv`."""
