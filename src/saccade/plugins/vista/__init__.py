"""Hold VISTA-Gym's tools: charts, geometry, OCR, weights and endpoints."""
