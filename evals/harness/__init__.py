"""Every evaluation uses these parts: arms that ask, records that stay, rows that figures are made of."""
