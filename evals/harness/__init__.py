"""What every evaluation stands on: arms that ask, records that stay, rows that figures are made of."""
