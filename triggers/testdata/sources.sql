-- Tables for what the examples do not show: cascades over several tables, inner joins, totals, marks.
CREATE TABLE app.tenants (
  id INT NOT NULL PRIMARY KEY,
  label VARCHAR(20) NOT NULL
) ENGINE = InnoDB;
CREATE TABLE app.owners (
  id INT NOT NULL PRIMARY KEY,
  tenant_id INT NOT NULL,
  nick VARCHAR(30) CHARACTER SET latin1,
  CONSTRAINT owner_tenant FOREIGN KEY (tenant_id) REFERENCES app.tenants (id) ON DELETE CASCADE ON UPDATE CASCADE
) ENGINE = InnoDB;
CREATE TABLE app.kinds (
  code CHAR(4) CHARACTER SET ascii NOT NULL PRIMARY KEY,
  active TINYINT NOT NULL DEFAULT 1,
  label VARCHAR(20) NOT NULL
) ENGINE = InnoDB;
CREATE TABLE app.items (
  shop INT NOT NULL,
  no INT NOT NULL,
  owner_id INT,
  editor_id INT,
  kind CHAR(4) CHARACTER SET ascii,
  price DECIMAL(9,2),
  qty INT NOT NULL DEFAULT 0,
  title VARCHAR(60) NOT NULL DEFAULT '',
  born DATE,
  meta JSON,
  raw VARBINARY(20),
  noise INT NOT NULL DEFAULT 0,
  PRIMARY KEY (shop, no),
  KEY owner_id (owner_id),
  KEY editor_id (editor_id),
  KEY kind (kind),
  CONSTRAINT item_owner FOREIGN KEY (owner_id) REFERENCES app.owners (id) ON DELETE CASCADE ON UPDATE CASCADE,
  CONSTRAINT item_editor FOREIGN KEY (editor_id) REFERENCES app.owners (id) ON DELETE SET NULL ON UPDATE CASCADE
) ENGINE = InnoDB;
CREATE TABLE app.payments (
  id INT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  shop INT NOT NULL,
  day DATE NOT NULL,
  amount DECIMAL(9,2),
  units INT NOT NULL,
  void TINYINT NOT NULL DEFAULT 0,
  KEY shop (shop, day)
) ENGINE = InnoDB;
