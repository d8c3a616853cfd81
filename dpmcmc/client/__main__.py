from dpmcmc.client.cli import app

app(prog_name="dpmcmc")
