-- The ledger of the last release: its tables, and what three requests of November 2026 left.
CREATE TABLE quota_schema (version BIGINT NOT NULL);
INSERT INTO quota_schema (version) VALUES (1);
CREATE TABLE quota_usage (
	window_type   TEXT   NOT NULL,
	window_start  BIGINT NOT NULL,
	tenant_id     TEXT   NOT NULL,
	api_key_id    TEXT   NOT NULL,
	user_id       TEXT   NOT NULL,
	service_type  TEXT   NOT NULL,
	model         TEXT   NOT NULL,
	writer        TEXT   NOT NULL,
	request_count BIGINT NOT NULL,
	token_count   BIGINT NOT NULL,
	updated_at    BIGINT NOT NULL,
	PRIMARY KEY (window_start, window_type, user_id, tenant_id, api_key_id, model, service_type, writer)
);
INSERT INTO quota_usage VALUES
	('MONTH', 1793491200, 'acme', 'team-a', '', 'chat', 'm', 'WRITEROFTHELAST', 2, 14, 1794000000),
	('MONTH', 1793491200, 'acme', 'team-a', 'u', 'chat', 'm', 'WRITEROFTHELAST', 1, 7, 1794000000),
	('DAY',   1793923200, 'acme', 'team-a', '', 'chat', 'm', 'WRITEROFTHELAST', 2, 14, 1794000000);
