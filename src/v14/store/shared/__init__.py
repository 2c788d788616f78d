"""A store that several servers share: catalog in PostgreSQL, segments in an S3-compatible object store."""
