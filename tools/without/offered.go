package main

// offered are functions that the core offers to every wing and that one of them uses now, by that
// wing, with the reason why they are in the core.
var offered = map[string]offer{
	"answers": {"The routes of kept responses are rows of the table of the unified API, which checks their requests.", []string{
		"serve/web/v1.KeptRoutes",
	}},
	"backup": {"Each store declares its kinds, and copies, signs and seals its own records; a backup only goes through them.", []string{
		"(*config/control/pglog.Copy).Replace",
		"(*store.Kept).Names",
		"(*store.Rekeying).Resigned",
		"(*store.Rekeying).Verify",
		"(*store/seal.Stored).IsSigned",
		"(access.ended).isLater",
		"(config/control/versions.sealing).rekey",
		"access.Confirmed",
		"access.Count",
		"access.Kept",
		"access.Owners",
		"access.ReadStored",
		"access.Rekey",
		"access.Restored",
		"access.WriteStored",
		"access.isIssued",
		"access.setDisabled",
		"access/sessions.Kept",
		"access/sessions.Kinds",
		"access/sessions.SeenAt",
		"config/control.Kept",
		"config/control/files.Kept",
		"config/control/files.OpenToRekey",
		"config/control/pglog.Check",
		"config/control/pglog.IsSigned",
		"config/control/pglog.Kept",
		"config/control/pglog.Lock",
		"config/control/pglog.Make",
		"config/control/pglog.Mark",
		"config/control/pglog.SetMark",
		"config/control/versions.Confirm",
		"config/control/versions.Rekey",
		"config/control/vouch.IsCurrent",
		"config/control/vouch.NeedsSealing",
		"count/budget.Kept",
		"count/budget.Rekey",
		"count/quota.ReadJournal",
		"count/quota/sqlstore.Kept",
		"gateway.Kept",
		"hosts/fleet/redisfleet.Kept",
		"store.Of",
		"store/cluster/registry.Kept",
		"store/cluster/registry.Running",
		"store/documents.Confirm",
		"store/documents.Rekeyed",
		"store/documents.SignRestored",
		"store/documents/pgdocuments.Each",
		"store/documents/pgdocuments.Merge",
		"store/documents/pgdocuments.Remove",
		"store/mark.Begin",
		"store/tally/redistally.Kept",
	}},
	"batches": {"Other stores may have records with an id and a date; only package account may take from limits; the journal gives places in its own form.", []string{
		"(*route/account.Operations).Visit",
		"(*route/account.Operations).prune",
		"(*store/journal.Reader).Start",
		"(store/journal.Format).Overhead",
		"route/account.NewOperations",
		"store/documents.Dated",
		"store/documents.NewID",
		"store/documents.RandomID",
	}},
	"callertokens": {"The names of tenants follow one rule, which package access has.", []string{
		"access.CheckTenant",
	}},
	"importer": {"The tables of providers and prices belong to their packages.", []string{
		"hosts/providers.OwnsVariable",
		"request/prices.Listed",
	}},
	"realtime": {"The parts of a request and of an answer are read where the other endpoints read theirs.", []string{
		"request/estimate.Length",
		"request/schema.MembersIn",
		"route/proxy.ReadLinked",
		"route/reply.StatusError",
		"serve/web.MayRead",
	}},
	"runs": {"The ledger names what it counts.", []string{
		"count/budget.RunSubject",
	}},
	"selfservice": {"Package access compares the terms of keys.", []string{
		"access.IsWithinRange",
	}},
	"signin": {"Package web records operations of people.", []string{
		"serve/web.Intend",
	}},
	"starter": {"Keys and tokens have one form, which package access makes; operations are sent as other verbs send theirs.", []string{
		"access.NewKeyText",
		"access.NewTokenText",
		"config/direct.Send",
	}},
}

type offer struct {
	reason    string
	functions []string
}
