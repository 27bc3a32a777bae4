"""The jobs of `muster spark run`: a topic of the coordinator in, tables in Parquet out.

`job` says what a job is, `runner` runs one, `source` asks the cluster before Spark is started; each other module
is a job, or what it needs.
"""
