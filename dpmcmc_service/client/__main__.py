from dpmcmc_service.client.cli import app

app(prog_name="dpmcmc")
