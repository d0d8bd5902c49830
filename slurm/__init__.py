"""What runs on a cluster: batch jobs (job), the check of a site (doctor), a cluster here
(tabletop)."""
