"""Infrastructure that every room of the package uses: HTTP, retries, and the bridge from sync to async."""
