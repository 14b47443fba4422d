"""What people and alerts see: exporter, alerts, reports, pages."""
