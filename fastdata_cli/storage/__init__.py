"""Where bytes lie and how they get there: handles, staging, sample tables, the gather core."""
